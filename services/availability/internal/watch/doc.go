// Package watch tells any number of watchers what is available and what changes, from one reading of the database per process.
//
//	Source ──every second, while somebody watches──► Feed: everything as last read ──what differs──► each Watch: everything, then changes
//
// A watcher first gets what the feed knows, and from then on every difference: between the two nothing is lost. What is read twice and
// does not differ is told once.
package watch
