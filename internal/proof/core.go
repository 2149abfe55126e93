package proof

import (
	"fmt"
	"strconv"
)

// A Core identifies the design of a CPU's cores. What a single instruction costs depends on it.
type Core struct {
	Vendor        Vendor
	Family, Model int
}

// A Vendor makes CPUs. Bars of single instructions differ by vendor.
type Vendor string

const (
	Intel       Vendor = "GenuineIntel"
	AMD         Vendor = "AuthenticAMD"
	OtherVendor Vendor = ""
)

func thisCore() Core {
	number := func(key string) int {
		n, _ := strconv.Atoi(field("/proc/cpuinfo", key, ":"))
		return n
	}
	c := Core{Vendor: Vendor(field("/proc/cpuinfo", "vendor_id", ":")),
		Family: number("cpu family"), Model: number("model")}
	if c.Vendor != Intel && c.Vendor != AMD {
		return Core{}
	}
	return c
}

// This list gives the name of a design to each family and range of models. The sources are the
// vendors' lists of family and model numbers. A design may have several ranges in its family, such
// as one for servers and one for clients.
var names = []struct {
	vendor      Vendor
	family      int
	first, last int // smallest and largest number of a model
	name        string
}{
	{Intel, 6, 85, 85, "Skylake, Cascade Lake or Cooper Lake"},
	{Intel, 6, 106, 106, "Ice Lake"},
	{Intel, 6, 108, 108, "Ice Lake"},
	{Intel, 6, 143, 143, "Sapphire Rapids"},
	{Intel, 6, 173, 174, "Granite Rapids"},
	{Intel, 6, 207, 207, "Emerald Rapids"},
	{AMD, 23, 0, 0x2F, "Zen"},
	{AMD, 23, 0x30, 0xFF, "Zen 2"},
	{AMD, 25, 0, 0x0F, "Zen 3"},
	{AMD, 25, 0x10, 0x1F, "Zen 4"},
	{AMD, 25, 0x20, 0x5F, "Zen 3"},
	{AMD, 25, 0x60, 0xAF, "Zen 4"},
	{AMD, 26, 0, 0xFF, "Zen 5"},
}

// String returns the name of the design, if it is known, and the numbers: "Zen 4, family 25 model
// 17".
func (c Core) String() string {
	if c == (Core{}) {
		return "unknown design"
	}
	numbers := fmt.Sprintf("family %d model %d", c.Family, c.Model)
	for _, n := range names {
		if n.vendor == c.Vendor && n.family == c.Family && n.first <= c.Model && c.Model <= n.last {
			return n.name + ", " + numbers
		}
	}
	return numbers
}
