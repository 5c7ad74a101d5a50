//go:build !break_order

package enrollment

// keepsOrder is the rule that an older heartbeat never replaces a newer one (I-6). A build with the tag break_order breaks it, so that
// chaos can be seen to notice.
const keepsOrder = true
