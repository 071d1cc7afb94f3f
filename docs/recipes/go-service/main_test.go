package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/oncegatetest"
)

// TestMain creates the service's own tables, once.
func TestMain(m *testing.M) {
	if err := createTables(context.Background(), os.Getenv("TEST_DATABASE_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "TEST_DATABASE_URL must name a PostgreSQL for tests:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// start starts the service's Inbox for one test.
func start(t *testing.T) *oncegatetest.Inbox {
	t.Helper()
	cfg := config(os.Getenv("TEST_DATABASE_URL"), oncegate.Value("whsec_test"))
	return oncegatetest.Start(t, cfg, func(og *oncegate.Inbox) { _ = og.Handle("ledger", book) })
}

// booked returns how many rows the ledger has of an event.
func booked(t *testing.T, og *oncegatetest.Inbox, event string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), og.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM books.ledger WHERE event = $1`, event).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnInvoiceIsBookedOnce(t *testing.T) {
	t.Parallel()
	og := start(t)
	paid := oncegatetest.Delivery{Source: "stripe", Fixture: "stripe-invoice-paid"}
	first := og.Deliver(t, paid)
	paid.EventID = first.EventID
	og.DeliverTogether(t, paid, paid) // Stripe repeats it, twice at the same instant
	og.Wait(t)
	if n := booked(t, og, first.EventID); n != 1 {
		t.Errorf("booked %d times", n)
	}
}

func TestAnInvoiceWithoutACustomerIsADeadLetter(t *testing.T) {
	t.Parallel()
	og := start(t)
	answer := og.Deliver(t, oncegatetest.Delivery{Source: "stripe", Type: "invoice.paid", Body: []byte(`{"id": "evt_nobody", "object": "event", "data": {"object": {}}}`)})
	if answer.Status != 200 {
		t.Fatalf("it is answered with %d: %s", answer.Status, answer.Body)
	}
	og.Wait(t)
	effect := og.Effect(t, "stripe", "evt_nobody", "ledger")
	if effect.State != oncegatetest.Dead || effect.Attempts != 1 || effect.Text != errNoCustomer.Error() {
		t.Errorf("%+v", effect)
	}
}

func TestDeliveriesReachTheInboxThroughTheServer(t *testing.T) {
	t.Parallel()
	og := start(t)
	forged := oncegatetest.Delivery{Source: "stripe", Secret: "whsec_wrong"}
	answer := httptest.NewRecorder()
	handler(og.Inbox).ServeHTTP(answer, og.Request(t, forged))
	if answer.Code != 401 {
		t.Errorf("a forged delivery is answered with %d", answer.Code)
	}
	answer = httptest.NewRecorder()
	handler(og.Inbox).ServeHTTP(answer, og.Request(t, oncegatetest.Delivery{Source: "stripe"}))
	if answer.Code != 200 {
		t.Errorf("a genuine one is answered with %d", answer.Code)
	}
}
