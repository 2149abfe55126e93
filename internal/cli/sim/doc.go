// Package sim contains cprof sim, which runs simulations.
package sim
