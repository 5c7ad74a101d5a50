// Package e2e holds the tests that start everything as a user would and speak REST.
package e2e
