package broker

// heap is a binary heap whose items know where in it they are, so that any of them can be removed.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(item T, index int) // index -1: not in the heap
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) remove(index int) T {
	last := len(h.items) - 1
	removed, moved := h.items[index], h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if index < last {
		h.items[index] = moved
		h.fix(index)
	}
	h.place(removed, -1)
	return removed
}

// fix restores the order after an item's key changed.
func (h *heap[T]) fix(index int) {
	if !h.down(index) {
		h.up(index)
	}
}

func (h *heap[T]) up(i int) {
	item := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(item, h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		h.place(h.items[i], i)
		i = parent
	}
	h.items[i] = item
	h.place(item, i)
}

func (h *heap[T]) down(i int) bool {
	start, item := i, h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], item) {
			break
		}
		h.items[i] = h.items[child]
		h.place(h.items[i], i)
		i = child
	}
	h.items[i] = item
	h.place(item, i)
	return i > start
}
