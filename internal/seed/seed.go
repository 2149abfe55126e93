package seed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// Variable is the environment variable that sets the seed.
const Variable = "CLOUDPROFILER_SEED"

func fromEnvironment(t testing.TB) (n uint64, given bool) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("read %s: %q is not a whole number: %v", Variable, text, err)
	}
	return n, true
}

// Of returns the seed of a test, and logs how to repeat the test.
func Of(t testing.TB) uint64 {
	t.Helper()
	n, given := fromEnvironment(t)
	if !given {
		n = rand.Uint64()
	}
	t.Logf("again with %s=%d", Variable, n)
	return n
}

// Random returns a random source with the seed of a test.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 0))
}

// Share returns a number by which a test divides the amount of its random work. The number is more
// than 1 under the race detector and under an emulator, where code is ten times slower, and in the
// short run of make check. The ordinary run tests the same code with the full amount. If a test
// makes threads or processes race, it must not use Share.
func Share() int {
	switch {
	case Race || os.Getenv(reexec.EmulatorVariable) != "":
		return 10
	case testing.Short():
		return 5
	}
	return 1
}

// NotUnderRace skips a test under the race detector. It is for tests that take seconds and in which
// the detector can find nothing new: either the test starts nothing side by side, or other tests
// run the same code side by side. The argument why says which of these is true.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip("not under the race detector: " + why)
	}
}

// Numbers returns the seeds 1, 2 and so on. Their number is n divided by Share, rounded up. If the
// environment sets a seed, Numbers returns only that seed. It is for tests that must run in the
// same way each time.
func Numbers(t testing.TB, n int) []uint64 {
	t.Helper()
	if given, ok := fromEnvironment(t); ok {
		return []uint64{given}
	}
	seeds := make([]uint64, (n+Share()-1)/Share())
	for i := range seeds {
		seeds[i] = uint64(i) + 1
	}
	return seeds
}

// For runs f once for each seed that Numbers returns. Each run is a subtest.
func For(t *testing.T, n int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	for _, seed := range Numbers(t, n) {
		if !t.Run(fmt.Sprintf("seed=%d", seed),
			func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0))) }) {
			t.Errorf("again with %s=%d", Variable, seed)
		}
	}
}
