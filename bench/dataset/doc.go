// Package dataset makes records whose information content is known: named, seeded streams of
// ⟨counter, id⟩ for measuring how small and how fast a log can be.
//
// The package is independent of logs and of their format: it fills two columns of 64-bit numbers. A
// name is GAPS/IDS/QUANTUM:
//
//	GAPS     loop           a program that does nothing but log: 47 to 52 cycles between records,
//	                        now and then an interruption
//	         poisson1us     independent arrivals, one a microsecond in the mean (2,600 cycles)
//	         poisson20us    the same, one in 20 microseconds
//	         bursts         tight records in bursts of 256 in the mean, then silence of about a
//	                        millisecond
//	IDS      seq            consecutive
//	         shuffled64     consecutive, but in random order within each group of 64
//	         random         64 random bits
//	QUANTUM  q1             the counter moves by single cycles
//	         q26            the counter moves in steps of 26 cycles
//
// # Entropy
//
// [Set.EntropyBits] is computed from the distribution from which a set's records are drawn, and not
// from the records:
//
//   - poisson: the counter is q·⌊t/q⌋ of a Poisson process. The number of records in a step is
//     Poisson with mean λ = q/mean, independent from step to step. The sequence of counters
//     contains the same information as these numbers. So the rate is H(Poisson(λ))/λ bits a record.
//   - bursts: gaps are whole numbers of steps, and independent by construction. With probability
//     1/256 a gap is idle (100 µs and a geometric rest with mean 1 ms). All other gaps are tight.
//     Idle and tight gaps differ in length, so
//     H = h(1/256) + 255/256·H(tight) + 1/256·H(geometric),
//     where h is the entropy of a choice between two.
//   - loop: consecutive gaps depend on each other once the counter is quantised, and there is no
//     closed form. The measure is the plug-in entropy of the gaps ([PlugIn]) over at least ten
//     million records.
//   - ids: 0, log2(64!)/64 and 64 bits.
package dataset
