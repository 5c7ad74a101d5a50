// Package page shows a namespace in a browser: its entities with their counts, their messages, and why some were dead-lettered. Messages
// can be moved back or deleted. The pages are plain HTML with forms; they load nothing from elsewhere and run no script.
//
// They answer only browsers on the same machine, under its own names, so that no page of another site can read or change anything.
package page
