//go:build !race

package handlers

const raceBuild = false
