-- +goose Up
CREATE TABLE TblAvailabilityProbe (
    ProbeKey INTEGER PRIMARY KEY,
    ProbedAt TEXT NOT NULL
);
INSERT INTO TblAvailabilityProbe (ProbeKey, ProbedAt) VALUES (1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
