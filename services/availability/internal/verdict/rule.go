//go:build !break_blind

package verdict

// freezesBlind is the rule that silence proves nothing while we cannot prove that we were listening (I-11). A build with the tag
// break_blind breaks it, so that chaos can be seen to notice.
const freezesBlind = true
