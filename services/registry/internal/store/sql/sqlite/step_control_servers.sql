UPDATE TblControlServer SET
    RenewedAt = CASE WHEN RenewedAt > @since THEN MIN(@now, strftime('%Y-%m-%dT%H:%M:%fZ', RenewedAt, printf('%+d seconds', @seconds))) ELSE RenewedAt END,
    UnlistedAt = CASE WHEN UnlistedAt > @since THEN MIN(@now, strftime('%Y-%m-%dT%H:%M:%fZ', UnlistedAt, printf('%+d seconds', @seconds))) ELSE UnlistedAt END
WHERE RenewedAt > @since OR UnlistedAt > @since;
