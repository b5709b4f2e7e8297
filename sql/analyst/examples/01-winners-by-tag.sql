-- Who won the most in the last 7 days? Shows the top three traders of each tag.
SELECT tag, trader, realised_pnl, round(roi_percent, 2) AS roi_percent, volume, markets, wins
FROM analyst.leaderboards
WHERE time_frame = '7D' AND tag != 'all' AND realised_pnl > 0
ORDER BY tag, realised_pnl DESC, trader
LIMIT 3 BY tag
