-- +goose Up
CREATE TABLE dbo.TblAvailabilityProbe (
    ProbeKey int NOT NULL PRIMARY KEY,
    ProbedAt datetime2(3) NOT NULL
);
INSERT INTO dbo.TblAvailabilityProbe (ProbeKey, ProbedAt) VALUES (1, SYSUTCDATETIME());
