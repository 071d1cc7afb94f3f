package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// serveBare runs a receiver that reads a delivery, compares its signature, and answers, until SIGTERM. It records nothing:
// no receiver with the same HTTP server can be faster.
func serveBare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bare", flag.ContinueOnError)
	listen := flags.String("listen", "", "address")
	secret := flags.String("secret", "", "of the sender")
	if err := flags.Parse(args); err != nil {
		return err
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/*", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		if !isSigned(c.Request().Header.Get("Stripe-Signature"), body, []byte(*secret)) {
			return c.NoContent(http.StatusUnauthorized)
		}
		return c.JSONBlob(http.StatusOK, []byte(`{"status":"recorded"}`))
	})
	go func() {
		<-ctx.Done()
		timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = e.Shutdown(timed) // the process ends either way
	}()
	if err := e.Start(*listen); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// isSigned reports whether a header t=...,v1=... has the signature of the body.
func isSigned(header string, body, secret []byte) bool {
	at, signature, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	want, err := hex.DecodeString(signature)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return err == nil && hmac.Equal(mac.Sum(nil), want)
}
