-- +goose Up
-- The host name as names are compared, for searching. NULL until the next heartbeat.
ALTER TABLE TblAgent ADD COLUMN HostnameKey TEXT NULL;
