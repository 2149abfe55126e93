// Package similar finds the known word that a misspelt word was meant to be. Callers put the known
// word into their errors.
package similar
