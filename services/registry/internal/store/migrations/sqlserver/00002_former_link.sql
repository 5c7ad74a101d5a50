-- +goose Up
CREATE TABLE dbo.TblFormerLink (
    ServerKey int NOT NULL PRIMARY KEY,
    AgentName nvarchar(128) NOT NULL,
    EndedAt   datetime2(3) NOT NULL
);
