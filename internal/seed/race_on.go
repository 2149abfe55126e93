//go:build race

package seed

const raceBuild = true
