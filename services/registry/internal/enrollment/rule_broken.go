//go:build break_order

package enrollment

const keepsOrder = false
