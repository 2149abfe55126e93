// Package conversation has programs that exchange messages and write down each of them. Tests
// compare captured messages with this truth.
//
// The package is only for tests. The TestMain of a test package calls [Main] if the environment
// variable [Variable] is set.
package conversation
