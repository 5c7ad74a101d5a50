//go:build break_blind

package verdict

const freezesBlind = false
