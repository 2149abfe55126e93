// Package sim is cprof sim, which runs simulations.
package sim
