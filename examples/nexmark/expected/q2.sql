-- SPDX-License-Identifier: Apache-2.0
SELECT auction, price FROM bid WHERE auction % 123 = 0;
