-- +goose Up
CREATE TABLE dbo.TblRegistryProbe (
    ProbeKey int NOT NULL PRIMARY KEY,
    ProbedAt datetime2(3) NOT NULL
);
INSERT INTO dbo.TblRegistryProbe (ProbeKey, ProbedAt) VALUES (1, SYSUTCDATETIME());
