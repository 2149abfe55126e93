//go:build !race

package seed

const share = 1
