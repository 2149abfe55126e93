// Package commandtest helps tests of the commands for people. It runs command lines, compares their
// output with golden files, and checks that the examples in --help are valid. It tests that flags
// override the environment, and that the environment overrides the file. It is only for tests.
package commandtest
