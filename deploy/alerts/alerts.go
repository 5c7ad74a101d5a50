// Package alerts holds the alerting rules, and the test that reads them strictly.
package alerts
