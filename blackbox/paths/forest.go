package paths

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// A forest has the trees that links make of calls. The root of each tree is a call without a cause.
type forest struct {
	seen     *Seen
	links    []link.Link
	parent   []int32 // cause of each call; -1: none
	children [][]int32
	roots    []int32
	answer   []int32 // number of the response, if it is a call of its own; -1: it is not

	form        []int32 // number of the canonical form of each call's tree
	probability []float64
	forms       map[string]int32
	programs    map[string]int32
}

// newForest makes a forest. The canonical forms and the programs of earlier forests keep their
// numbers.
func newForest(seen *Seen, links []link.Link, forms, programs map[string]int32) *forest {
	n := len(links)
	f := &forest{seen: seen, links: links, parent: make([]int32, n), children: make([][]int32, n),
		form: make([]int32, n), probability: make([]float64, n), forms: forms,
		programs: programs, answer: seen.pairResponses(links)}
	for i := range links {
		f.parent[i] = -1
		if seen.Calls[i].Caller >= 0 && links[i].Cause >= 0 {
			f.parent[i] = links[i].Cause
		}
	}
	f.cutCycles()
	for i, p := range f.parent {
		if seen.Calls[i].Answers {
			continue
		}
		if p >= 0 {
			f.children[p] = append(f.children[p], int32(i))
		} else {
			f.roots = append(f.roots, int32(i))
		}
	}
	for _, r := range f.roots {
		f.findShape(r)
	}
	return f
}

// cutCycles removes the cause of one call in each cycle, so that this call becomes a root. Cycles
// only arise if clocks contradict each other.
func (f *forest) cutCycles() {
	const fresh, current, done = 0, 1, 2
	state := make([]uint8, len(f.parent))
	var way []int32
	for i := range f.parent {
		way = way[:0]
		for k := int32(i); k >= 0 && state[k] != done; k = f.parent[k] {
			if state[k] == current {
				f.parent[k] = -1
				break
			}
			state[k] = current
			way = append(way, k)
		}
		for _, k := range way {
			state[k] = done
		}
	}
}

// findShape finds the canonical form and the probability of a call's tree. Two trees have the same
// form if the same programs called the same programs equally often. The order of calls does not
// matter.
func (f *forest) findShape(root int32) {
	order := []int32{root}
	for i := 0; i < len(order); i++ {
		order = append(order, f.children[order[i]]...)
	}
	for i := len(order) - 1; i >= 0; i-- {
		c := order[i]
		slices.SortStableFunc(f.children[c], func(a, b int32) int {
			return cmp.Or(cmp.Compare(f.form[a], f.form[b]),
				cmp.Compare(f.seen.Calls[a].Began_ns(), f.seen.Calls[b].Began_ns()))
		})
		f.probability[c] = f.sureness(c)
		key := binary.LittleEndian.AppendUint32(nil, uint32(f.program(c)))
		if c == root {
			key = append(key, f.caller(c)...)
			key = append(key, 0)
		}
		for _, k := range f.children[c] {
			f.probability[c] *= f.probability[k]
			key = binary.LittleEndian.AppendUint32(key, uint32(f.form[k]))
		}
		f.form[c] = intern(f.forms, string(key))
	}
}

// sureness is the probability that two links of a call are right: the one to its cause, and the one
// to its response. It is 1 if there was nothing to choose.
func (f *forest) sureness(c int32) float64 {
	p := 1.0
	if k := f.answer[c]; k >= 0 {
		p = f.links[k].Probability
	}
	l := &f.links[c]
	if f.seen.Calls[c].Caller < 0 || l.Cause < 0 && l.Probability == 0 && l.RunnerUp < 0 {
		return p
	}
	return p * l.Probability
}

// program is the number of the called program.
func (f *forest) program(c int32) int32 { return intern(f.programs, f.callee(c)) }

func (f *forest) callee(c int32) string { return f.seen.Places[f.seen.Calls[c].Callee].Program }

// caller is the calling program. It is empty if the program was not captured.
func (f *forest) caller(c int32) string {
	if p := f.seen.Calls[c].Caller; p >= 0 {
		return f.seen.Places[p].Program
	}
	return ""
}

func intern(known map[string]int32, text string) int32 {
	n, ok := known[text]
	if !ok {
		n = int32(len(known))
		known[text] = n
	}
	return n
}

// tree returns the calls of a tree. A call comes before its children, and trees of the same form
// have their calls in the same order.
func (f *forest) tree(root int32) (all []int32, depth []int32) {
	return walk(root, func(c int32) []int32 { return f.children[c] })
}

// treeByTime returns the calls of a tree. A call comes before its children, and earlier children
// come before later ones.
func (f *forest) treeByTime(root int32) (all []int32, depth []int32) {
	return walk(root, func(c int32) []int32 {
		children := slices.Clone(f.children[c])
		slices.SortStableFunc(children, func(a, b int32) int {
			return cmp.Compare(f.seen.Calls[a].Began_ns(), f.seen.Calls[b].Began_ns())
		})
		return children
	})
}

func walk(root int32, children func(int32) []int32) (all []int32, depth []int32) {
	stack, depths := []int32{root}, []int32{0}
	for len(stack) > 0 {
		n := len(stack) - 1
		c, d := stack[n], depths[n]
		stack, depths = stack[:n], depths[:n]
		all, depth = append(all, c), append(depth, d)
		for _, k := range slices.Backward(children(c)) {
			stack, depths = append(stack, k), append(depths, d+1)
		}
	}
	return all, depth
}
