// Package conversation has programs that exchange messages and write down each of them. Tests
// compare captured messages with this truth.
//
// It is only for tests. Their TestMain calls [Main] if the environment variable [Variable] is set.
package conversation
