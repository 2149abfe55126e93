package logstore

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// editFile changes a file as damage does. Each six bytes of the script are one edit: what to do,
// where (two bytes), length (two bytes), and a byte value. overwritten lists the places of the
// edits. moved is true if an edit inserted or removed bytes, so that later bytes moved.
func editFile(data, script []byte) (edited []byte, overwritten []span, moved bool) {
	data = slices.Clone(data)
	for ; len(script) >= 6 && len(data) > 0; script = script[6:] {
		at := (int(script[1])<<8 | int(script[2])) % len(data)
		length := 1 + (int(script[3])<<8|int(script[4]))%512
		end := min(at+length, len(data))
		switch script[0] % 6 {
		case 0:
			data[at] ^= max(1, script[5])
			end = at + 1
		case 1:
			for i := at; i < end; i++ {
				data[i] = script[5]
			}
		case 2: // copy a part from elsewhere in the file
			from := (at + int(script[5])*97) % len(data)
			copy(data[at:end], slices.Clone(data[from:]))
		case 3:
			data = slices.Delete(data, at, end)
			moved = true
		case 4:
			from := (at + int(script[5])*97) % len(data)
			data = slices.Insert(data, at, slices.Clone(data[from:min(from+length, len(data))])...)
			moved = true
		case 5:
			data = data[:at]
			end = 1 << 30
		}
		overwritten = append(overwritten, span{at, end})
	}
	return data, overwritten, moved
}

// Whatever happens to a file, readers return only rows that were written, and no row twice. If no
// edit moved bytes, readers return all rows of the blocks that no edit touched.
func FuzzDamagedLog(f *testing.F) {
	blocks := sampleBlocks()
	written := rowsOfAll(f, blocks)
	type sample struct {
		data   []byte
		places []span
	}
	var samples []sample
	for _, seal := range []bool{true, false} {
		data := writeLog(f, sampleHeader(f), blocks, seal)
		_, places, _ := blockSpans(f, data)
		samples = append(samples, sample{data, places})
	}
	for which := range samples {
		f.Add(uint8(which), []byte{0, 8, 0, 0, 0, 1})
		f.Add(uint8(which), []byte{2, 12, 0, 1, 0, 9, 3, 14, 0, 0, 90, 7})
		f.Add(uint8(which), []byte{4, 10, 0, 1, 255, 200, 5, 15, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, which uint8, script []byte) {
		s := samples[int(which)%len(samples)]
		data, overwritten, moved := editFile(s.data, script)
		for _, name := range []string{"stream", "file"} {
			rows, damage, err := readers[name](t, data)
			if err != nil {
				if rows != nil {
					t.Fatalf("%s: %v", name, err)
				}
				continue // the header is damaged
			}
			for key, value := range rows {
				if written[key] != value {
					t.Fatalf("%s: row %v is %v, was written as %v", name, key, value, written[key])
				}
			}
			for _, d := range damage {
				if d == nil {
					t.Fatalf("%s: damage without a reason", name)
				}
			}
			if moved {
				continue
			}
			var left []*Block
			for i, place := range s.places {
				if !slices.ContainsFunc(overwritten, func(o span) bool {
					return o.from < place.to && o.to > place.from
				}) {
					left = append(left, blocks[i])
				}
			}
			for key, value := range rowsOfAll(t, left) {
				if rows[key] != value {
					t.Fatalf("%s: row %v is %v, and nothing happened to %v", name, key, rows[key],
						value)
				}
			}
		}
	})
}

// For any bytes at all, readers come to an end, and salvage makes a whole log or nothing.
func FuzzAnyBytes(f *testing.F) {
	data := writeLog(f, sampleHeader(f), sampleBlocks(), true)
	f.Add(data)
	f.Add(data[len(data)/2:])
	// Add a file in which two blocks have changed places.
	_, places, _ := blockSpans(f, data)
	a, b := places[1], places[3]
	f.Add(slices.Concat(data[:a.from], data[b.from:b.to], data[a.to:b.from], data[a.from:a.to],
		data[b.to:]))
	f.Fuzz(func(t *testing.T, data []byte) {
		stream, _, err := readers["stream"](t, data)
		_, _, err2 := readers["file"](t, data)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("stream: %v, file: %v", err, err2)
		}
		path := filepath.Join(t.TempDir(), "salvaged")
		if _, salvaged := Salvage(bytes.NewReader(data), "log", path,
			sampleHeader(t)); salvaged != nil {
			if err == nil {
				t.Fatalf("what can be read cannot be salvaged: %v", salvaged)
			}
			return
		}
		out, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		again, damage, err := drainBlocks(out.All().Next)
		if err != nil || len(damage) > 0 {
			t.Fatalf("what was salvaged has damage %v, error %v", damage, err)
		}
		maps.DeleteFunc(again, func(key rowKey, value rowValue) bool {
			return key.kind == Drops && stream[key] != value
		})
		if stream != nil && !maps.Equal(again, stream) {
			t.Fatalf("%d rows were read, %d salvaged", len(stream), len(again))
		}
	})
}

// If arbitrary bytes can be parsed as a header, then the header is the same after it was written
// and parsed again.
func FuzzHeader(f *testing.F) {
	h := sampleHeader(f)
	h.Continues = []Place{{Links, 3, 99}}
	f.Add(appendHeader(nil, &h))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Correct the checksum. Otherwise the fuzzer would never reach the code after it.
		if i := bytes.LastIndex(data, []byte("crc32c ")); i >= 0 {
			data = append(append(slices.Clone(data[:i]), checksumLine(data[:i])...), '\n')
		}
		h, err := parseHeader(data)
		if err != nil {
			return
		}
		again, err := parseHeader(appendHeader(nil, &h))
		if err != nil || !sameHeader(h, again) {
			t.Fatalf("%+v is written as %q and read as %+v, error %v", h, appendHeader(nil, &h),
				again, err)
		}
	})
}
