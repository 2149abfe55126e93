//go:build !race

package seed

const raceBuild = false
