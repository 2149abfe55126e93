package capture

// order brings messages into the order of their stamps. Messages with the same stamp keep their
// order.
//
// The messages of one ring are nearly in order. So the messages of all rings consist of few runs:
// parts that are in order. sortMessages merges neighbouring runs until one is left.
type order struct {
	ends  []int // where the runs end
	spare []seenMessage
}

// sortMessages returns the messages in order. It may put them into the memory of o.spare. If it
// does, o.spare becomes the memory that the argument used.
func (o *order) sortMessages(all []seenMessage) []seenMessage {
	o.ends = o.ends[:0]
	for i := 1; i <= len(all); i++ {
		if i == len(all) || all[i].stamp_ns < all[i-1].stamp_ns {
			o.ends = append(o.ends, i)
		}
	}
	for len(o.ends) > 1 {
		merged := o.spare[:0]
		from, kept := 0, 0
		for i := 0; i < len(o.ends); i += 2 {
			middle := o.ends[i]
			to := o.ends[min(i+1, len(o.ends)-1)]
			merged = mergeRuns(merged, all[from:middle], all[middle:to])
			o.ends[kept] = to
			from, kept = to, kept+1
		}
		o.ends = o.ends[:kept]
		all, o.spare = merged, all
	}
	return all
}

// mergeRuns appends two runs to a slice, in order.
func mergeRuns(to, a, b []seenMessage) []seenMessage {
	for len(a) > 0 && len(b) > 0 {
		if b[0].stamp_ns < a[0].stamp_ns {
			to, b = append(to, b[0]), b[1:]
		} else {
			to, a = append(to, a[0]), a[1:]
		}
	}
	return append(append(to, a...), b...)
}
