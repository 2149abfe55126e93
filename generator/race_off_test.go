//go:build !race

package generator

const raceBuild = false
