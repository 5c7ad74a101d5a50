-- +goose Up
CREATE TABLE TblFormerLink (
    ServerKey INTEGER PRIMARY KEY,
    AgentName TEXT NOT NULL,
    EndedAt   TEXT NOT NULL
);
