-- +goose Up
-- The host name as names are compared, for searching. NULL until the next heartbeat.
ALTER TABLE dbo.TblAgent ADD HostnameKey nvarchar(1024) COLLATE Latin1_General_BIN2 NULL;
