// Package similar finds the known word that a misspelt word was meant to be. Callers put it into
// their errors.
package similar
