// Package seed gives random tests a seed that is new each time, printed where a test fails, and taken back from the
// environment: CLOUDPROFILER_SEED=n go test -run '^TestName$' ./package.
//
// It is for tests alone. What is random in the product itself comes from crypto/rand.
package seed
