// Package enrollment decides who becomes an agent: names, what a heartbeat changes, and operators' decisions. It knows no
// database, no network and no clock.
package enrollment
