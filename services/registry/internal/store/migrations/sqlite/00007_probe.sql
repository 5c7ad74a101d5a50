-- +goose Up
CREATE TABLE TblRegistryProbe (
    ProbeKey INTEGER PRIMARY KEY,
    ProbedAt TEXT NOT NULL
);
INSERT INTO TblRegistryProbe (ProbeKey, ProbedAt) VALUES (1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
