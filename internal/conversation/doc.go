// Package conversation has programs that exchange messages and write down each of them: the truth,
// against which captured messages are held.
//
// It is only for tests. Their TestMain calls [Main] if the environment variable [Variable] is set.
package conversation
