// Package sqlserver holds what the services' logins may do in SQL Server, and the test that compares it with their schemas.
package sqlserver
