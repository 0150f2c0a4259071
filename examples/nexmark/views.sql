-- SPDX-License-Identifier: Apache-2.0
-- The persons, auctions, and bids among the events.

CREATE VIEW person AS
SELECT person.id, person.name, person.email_address, person.credit_card, person.city, person.state,
       date_time, person.extra
FROM events WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, auction.item_name, auction.description, auction.initial_bid, auction.reserve,
       date_time, auction.expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, date_time, now, bid.extra
FROM events WHERE event_type = 2;
