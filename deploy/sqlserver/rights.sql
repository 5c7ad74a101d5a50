-- What the services' logins may do, as roles of the database. Run it after the migrations, as db_owner; again when a migration brought
-- a table, since what is granted already stays granted. Then, for each service, with the name of its user:
--
--   ALTER ROLE commandcenter_registry ADD MEMBER [registry];
--   ALTER ROLE commandcenter_availability ADD MEMBER [availability];
--
-- and only at the moment of going live, as GOING-LIVE.md says:
--
--   ALTER ROLE commandcenter_online ADD MEMBER [availability];
--
-- None of these users may be a member of db_owner, db_datawriter or db_ddladmin besides: that would let it write Online. Whoever runs
-- `registry migrate` and `availability migrate` needs db_ddladmin, db_datareader and db_datawriter, and is best a user of its own.

IF DATABASE_PRINCIPAL_ID(N'commandcenter_registry') IS NULL CREATE ROLE commandcenter_registry;
IF DATABASE_PRINCIPAL_ID(N'commandcenter_availability') IS NULL CREATE ROLE commandcenter_availability;
IF DATABASE_PRINCIPAL_ID(N'commandcenter_online') IS NULL CREATE ROLE commandcenter_online;

-- The registry creates and edits servers, and never touches Online afterwards (I-9).
GRANT SELECT, INSERT ON dbo.TblServer TO commandcenter_registry;
GRANT UPDATE ON dbo.TblServer (Name, Url, Type, Active) TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAgent TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAgentReceiver TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblFormerLink TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblServerName TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblIngestEvidence TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblControlServer TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAffinityGroup TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblPartitionEvent TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblCloudState TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblRegistryClock TO commandcenter_registry;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblRegistryProbe TO commandcenter_registry;
GRANT SELECT ON dbo.registry_schema_version TO commandcenter_registry;

-- Availability in mode observe: it reads the servers and the offline log, and writes its own tables.
GRANT SELECT ON dbo.TblServer TO commandcenter_availability;
GRANT SELECT ON dbo.TblServerOfflineLog TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblJobLease TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAvailabilityStatus TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAvailabilityPath TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAvailabilityState TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblMaintenanceSwitch TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblMaintenanceWindow TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblMaintenanceKey TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAvailabilityServerName TO commandcenter_availability;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.TblAvailabilityProbe TO commandcenter_availability;
GRANT SELECT ON dbo.availability_schema_version TO commandcenter_availability;

-- What mode own needs besides.
GRANT UPDATE ON dbo.TblServer (Online) TO commandcenter_online;
GRANT INSERT ON dbo.TblServerOfflineLog TO commandcenter_online;
