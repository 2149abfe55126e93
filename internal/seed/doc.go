// Package seed gives random tests a seed. The seed is new each time, and is printed if a test
// fails. To repeat a test, set the seed in the environment: CLOUDPROFILER_SEED=n go test -run
// '^TestName$' ./package.
//
// It is only for tests. Randomness in the product itself is taken from crypto/rand.
package seed
