// The adapter for redsync 4, on one server or several.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	client "github.com/gomodule/redigo/redis"
)

// How long a command may take; without a limit, a server that stands still holds its caller for ever.
const limit = 5 * time.Second

func main() {
	var pools []redis.Pool
	for _, url := range os.Args[1:] {
		url := url
		pools = append(pools, redigo.NewPool(&client.Pool{
			MaxIdle: 4,
			Dial: func() (client.Conn, error) {
				return client.DialURL(url, client.DialConnectTimeout(limit),
					client.DialReadTimeout(limit), client.DialWriteTimeout(limit))
			},
		}))
	}
	locks := redsync.New(pools...)
	fmt.Println("ready redsync", version())

	var held *redsync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			milliseconds, _ := strconv.Atoi(words[2])
			ttl := time.Duration(milliseconds) * time.Millisecond
			held = locks.NewMutex(words[1], redsync.WithExpiry(ttl))
			if err := held.TryLock(); err == nil {
				fmt.Println("granted")
			} else {
				fmt.Println("refused", oneLine(err))
			}
		case "held":
			// What its lock has for its holder: the end, by the clock of the process.
			if left := time.Until(held.Until()); left > 0 {
				fmt.Println("held", left.Milliseconds())
			} else {
				fmt.Println("lost")
			}
		case "release":
			_, err := held.Unlock()
			switch {
			case err == nil:
				fmt.Println("released")
			case errors.Is(err, redsync.ErrLockAlreadyExpired):
				fmt.Println("lost", oneLine(err))
			default:
				fmt.Println("refused", oneLine(err))
			}
		}
	}
}

// Its errors have a line for each server.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func version() string {
	program, _ := debug.ReadBuildInfo()
	for _, module := range program.Deps {
		if module.Path == "github.com/go-redsync/redsync/v4" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "of an unknown version"
}
