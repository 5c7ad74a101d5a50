package store

// Cursor is where a page ended: the last row's sort value and key.
type Cursor struct {
	Sort string `json:"s"`
	Key  int64  `json:"k"`
}
