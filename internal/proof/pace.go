package proof

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// paceVariable tells the commands that command prove starts how fast this machine is.
const paceVariable = "CLOUDPROFILER_PROOF_PACE"

// referencePace_gb_per_s is how fast the machine that the limits were set for (two Zen 5 vCPUs at 2.6 GHz) compresses raw records with zstd at
// its fastest level.
const referencePace_gb_per_s = 0.33

// paceExponent is more than 1 because zstd waits for memory and mispredicted branches, which older machines have as well: where it ran at
// 0.58 of the speed, encoding ran at 0.43, decoding and joining at 0.5, and translating at 0.52.
const paceExponent = 1.5

// MeasurePace returns how fast this machine runs code beside the one that limits were set for, at most 1: by the processor time that zstd,
// which is none of this product's code, takes for a block of records. It takes a fifth of a second.
func MeasurePace() (float64, error) {
	const records, repetitions, each = 1 << 16, 5, 40 * time.Millisecond
	r := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 0, 16*records)
	counter := uint64(1 << 40)
	for id := range uint64(records) {
		counter += 40 + r.Uint64N(16)
		block = binary.LittleEndian.AppendUint64(block, counter)
		block = binary.LittleEndian.AppendUint64(block, id)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, fmt.Errorf("measure pace: %w", err)
	}
	defer encoder.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out []byte
	var speeds []float64
	for range repetitions {
		begun, taken, blocks := threadTime(), time.Duration(0), 0
		for ; taken < each; taken = threadTime() - begun {
			out = encoder.EncodeAll(block, out[:0])
			blocks++
		}
		speeds = append(speeds, float64(blocks*len(block))/float64(taken.Nanoseconds()))
	}
	slices.Sort(speeds)
	return math.Pow(min(1, speeds[repetitions/2]/referencePace_gb_per_s), paceExponent), nil
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail for a clock that every Linux has
	return time.Duration(t.Nano())
}

// AtPace returns b, whose figure is an absolute time or speed, with its limit in proportion to this machine's pace where the proofs are run
// so: small, to judge a change wherever it is tested. A full run holds every figure against the limit as it stands.
func (b Bar) AtPace() Bar {
	if pace, err := strconv.ParseFloat(os.Getenv(paceVariable), 64); err == nil && pace > 0 && pace < 1 {
		b.Pace = pace
	}
	return b
}

// PaceEnvironment is what hands a pace to a command.
func PaceEnvironment(pace float64) string {
	return paceVariable + "=" + strconv.FormatFloat(pace, 'g', 6, 64)
}
