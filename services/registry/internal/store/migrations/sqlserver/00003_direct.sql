-- +goose Up
ALTER TABLE dbo.TblAgent ADD TokenClaimable bit NOT NULL DEFAULT 0;
ALTER TABLE dbo.TblAgent ADD PrimaryControlServerKey bigint NULL;
ALTER TABLE dbo.TblAgent ADD SecondaryControlServerKey bigint NULL;
ALTER TABLE dbo.TblAgent ADD AffinityGroupKey bigint NULL;
