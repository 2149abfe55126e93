package plainfile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UserName returns a user's name as /etc/passwd has it, or a number in quotes, such as '#4711'.
// "sudo -u" takes both. The quotes are for the shell.
func UserName(uid uint32) string { return nameIn("/etc/passwd", uid) }

func nameIn(path string, uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if file, err := os.Open(path); err == nil { // errors of Read would need this function again
		defer file.Close()
		const most = 1 << 20
		for lines := bufio.NewScanner(io.LimitReader(file, most)); lines.Scan(); {
			fields := strings.SplitN(lines.Text(), ":", 4)
			if len(fields) == 4 && fields[2] == number {
				return fields[0]
			}
		}
	}
	return "'#" + number + "'"
}

// addOwner adds to an error of permission who wanted to open a file, and whose file it is.
func addOwner(path string, err error) error {
	me := UserName(uint32(os.Geteuid()))
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return fmt.Errorf("%w: this is user %s", err, me)
	}
	return fmt.Errorf("%w: this is user %s, and the file belongs to user %s", err, me,
		UserName(st.Uid))
}
