//go:build race

package handlers

const raceBuild = true
