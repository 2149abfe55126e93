// Package seed gives random tests a seed that is new each time, printed if a test fails, and taken
// from the environment to repeat it: CLOUDPROFILER_SEED=n go test -run '^TestName$' ./package.
//
// It is for tests alone. Randomness in the product itself comes from crypto/rand.
package seed
