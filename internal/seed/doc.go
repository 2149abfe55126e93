// Package seed gives a seed to random tests. The seed of [Of] and [Random] is new each time. The
// seeds of [Numbers] and [For] are the same each time. If a test fails, the package prints its
// seed. To repeat a test, set the seed in the environment: CLOUDPROFILER_SEED=n go test -run
// '^TestName$' ./package.
//
// It is only for tests. The product itself takes random numbers from crypto/rand.
package seed
