/** Addresses that people guess, and where they lead. */
import type { RequestHandler } from 'express';
import type { Mount } from '../api/http/mount.ts';

const to =
  (address: (slug: string) => string): RequestHandler =>
  (request, response) => {
    response.redirect(address(encodeURIComponent(String(request.params.slug))));
  };

export const REDIRECTS: Mount = {
  open: {
    '/leaderboards': to(() => '/leaderboard'),
    '/events/:slug': to((slug) => `/event/${slug}`),
    '/reference': to(() => '/docs'),
  },
};
